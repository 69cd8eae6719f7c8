package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"hanbeon/pkg/api/sigv4"
	"hanbeon/pkg/local"
)

// connection is how other commands reach a `hanbeon local`: where it listens, and the key it takes. It lies beside the data file, readable by its owner only, for as long as
// the process works. After a kill -9 it stays behind; whoever then gets the lock of the data file knows by that alone that nobody serves it, and removes the connection.
type connection struct {
	Endpoint string `json:"endpoint"`
	Region   string `json:"region"`
	KeyID    string `json:"accessKeyId"`
	Secret   string `json:"secretAccessKey"`
}

// connectionPath is where the connection to the holder of a data file lies.
func connectionPath(data string) string { return data + ".api.json" }

func newConnection(endpoint string, key sigv4.Key) connection {
	return connection{endpoint, local.Region, key.ID, key.Secret}
}

// save writes the connection, whole or not at all.
func (c connection) save(data string) (err error) {
	path := connectionPath(data)
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // with mode 0600
	if err != nil {
		return fmt.Errorf("write the connection beside the data file: %w", err)
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write the connection beside the data file: %w", err)
	}
	return nil
}

// readConnection reads the connection to the holder of a data file; ok is false where there is none.
func readConnection(data string) (c connection, ok bool, err error) {
	path := connectionPath(data)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return connection{}, false, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err == nil && (c.Endpoint == "" || c.Region == "" || c.KeyID == "" || c.Secret == "") {
		err = errors.New("not a connection")
	}
	if err != nil {
		return connection{}, false, fmt.Errorf("connection file %s: %w", path, err)
	}
	return c, true, nil
}

// removeConnection removes the connection to a process that is gone or ending. Only who holds the data file may.
func removeConnection(data string) { _ = os.Remove(connectionPath(data)) }
