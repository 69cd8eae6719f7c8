package catalog

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxLine is the longest line of a member list, and the longest quoted field over several lines, in bytes: a file without line ends must not fill the
// memory.
const maxLine = 64 * 1024

// line is one line of a file without its line end.
type line struct {
	n    int64 // 1 is the first
	text string
	long bool // longer than allowed: text is cut
}

// lines reads lines and can take some back.
type lines struct {
	r    *bufio.Reader
	most int // bytes of a line
	n    int64
	back []line // to be read again, first one first
}

func newLines(r io.Reader, most int) *lines {
	return &lines{r: bufio.NewReaderSize(r, most+2), most: most} // a line and its CRLF
}

// next is the next line; io.EOF at the end. A last line without a line end counts if it has any bytes.
func (l *lines) next() (line, error) {
	if len(l.back) > 0 {
		first := l.back[0]
		l.back = l.back[1:]
		return first, nil
	}
	b, err := l.r.ReadSlice('\n')
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) && (err != io.EOF || len(b) == 0) {
		return line{}, err
	}
	l.n++
	b = bytes.TrimSuffix(b, []byte("\n"))
	b = bytes.TrimSuffix(b, []byte("\r"))
	got := line{n: l.n, text: string(b)}
	if len(b) > l.most {
		got.text, got.long = got.text[:l.most], true
	}
	for errors.Is(err, bufio.ErrBufferFull) { // longer than the buffer, so long is set
		_, err = l.r.ReadSlice('\n')
	}
	if err != nil && err != io.EOF {
		return line{}, err
	}
	return got, nil
}

// unread takes lines back; next gives them again in this order.
func (l *lines) unread(again []line) { l.back = append(again, l.back...) }
