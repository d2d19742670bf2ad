package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// readResult counts what was read. Files that the puller's user may not read are counted, never an error: images hold files of mode 0600.
type readResult struct {
	files, unreadable int
	bytes             int64
}

func (r readResult) String() string {
	return fmt.Sprintf("read %d files, %d bytes, %d unreadable", r.files, r.bytes, r.unreadable)
}

// read reads all regular files under dir, or those that the lines of list name relative to it, and throws the bytes away.
func read(dir, list string) (readResult, error) {
	var result readResult
	if err := check(dir); err != nil {
		return result, err
	}
	buffer := make([]byte, 1<<20)
	if list == "" {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				result.unreadable++
				if entry != nil && entry.IsDir() {
					return fs.SkipDir
				}
			case entry.Type().IsRegular():
				result.add(path, buffer)
			}
			return nil
		})
		return result, err
	}
	// os.Root keeps names such as ../../etc and absolute links inside the image.
	root, err := os.OpenRoot(dir)
	if err != nil {
		return result, err
	}
	defer root.Close()
	names, err := os.Open(list)
	if err != nil {
		return result, fmt.Errorf("the list of files cannot be opened: %w", err)
	}
	defer names.Close()
	lines := bufio.NewScanner(names)
	for lines.Scan() {
		name := strings.TrimPrefix(strings.TrimSpace(lines.Text()), "/")
		if name == "" {
			continue
		}
		file, err := root.Open(name)
		result.count(file, err, buffer)
	}
	return result, lines.Err()
}

func (r *readResult) add(path string, buffer []byte) {
	file, err := os.Open(path)
	r.count(file, err, buffer)
}

func (r *readResult) count(file *os.File, err error, buffer []byte) {
	if err != nil {
		r.unreadable++
		return
	}
	defer file.Close()
	n, err := readAll(file, buffer)
	r.bytes += n
	if err != nil {
		r.unreadable++
		return
	}
	r.files++
}

func readAll(from io.Reader, buffer []byte) (int64, error) {
	var total int64
	for {
		n, err := from.Read(buffer)
		total += int64(n)
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}
