package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	main "hanbeon/cmd/hanbeon"
)

// The key beside the data file opens the API of this machine: nobody else may read it, and none is left half written.
func TestTheKeyBesideTheDataFileIsForItsOwner(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "test.db")
	for range 2 { // also over what a killed process left
		if err := main.SaveConnection(data, "http://127.0.0.1:8787"); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(data + ".api.json")
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	if files, _ := os.ReadDir(filepath.Dir(data)); len(files) != 1 {
		t.Errorf("%d files, want one", len(files))
	}
	if err := main.SaveConnection(filepath.Join(t.TempDir(), "none", "test.db"), "http://127.0.0.1:8787"); err == nil || !strings.Contains(err.Error(), "write the connection") {
		t.Errorf("in no directory: %v, want an error that says what was tried", err)
	}
}

// What is on this machine never meets AWS credentials, and what is not never meets the local key.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		address string
		laptop  bool
		region  string // in the address
		wrong   bool
	}{
		{"http://127.0.0.1:8787", true, "", false},
		{"http://127.9.9.9:8787/", true, "", false},
		{"http://[::1]:8787", true, "", false},
		{"http://localhost:8787", true, "", false},
		{"https://localhost", true, "", false},
		{"https://abc123.execute-api.ap-northeast-2.amazonaws.com", false, "ap-northeast-2", false},
		{"https://abc123.execute-api.ap-northeast-2.amazonaws.com/prod/", false, "ap-northeast-2", false},
		{"https://abc123.execute-api.cn-north-1.amazonaws.com.cn", false, "cn-north-1", false},
		{"https://abc123-vpce-0a1b.execute-api.eu-west-1.amazonaws.com", false, "eu-west-1", false},
		{"https://vpce-0a1b-xyz.execute-api.eu-west-1.vpce.amazonaws.com", false, "eu-west-1", false},
		{"https://points.example.com", false, "", false},
		{"https://execute-api.evil.com", false, "", false},
		{"https://127.0.0.1.example.com", false, "", false},
		{"http://points.example.com", false, "", true},
		{"http://localhost.example.com", false, "", true},
		{"http://0.0.0.0:8787", false, "", true},
		{"http://10.0.0.1:8787", false, "", true},
		{"https://", false, "", true},
		{"https://:8787", false, "", true},
		{"127.0.0.1:8787", false, "", true},
		{"https://a b", false, "", true},
		{"file:///etc/passwd", false, "", true},
	} {
		laptop, region, err := main.Endpoint(c.address)
		if (err != nil) != c.wrong || laptop != c.laptop || region != c.region {
			t.Errorf("%s: laptop %t, region %q, %v; want %t, %q, an error %t", c.address, laptop, region, err, c.laptop, c.region, c.wrong)
		}
	}
}
