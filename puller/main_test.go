package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func image(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"a": "12345", "sub/b": "123"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// A link to nowhere is as unreadable as a file of another user, and root may read everything.
	if err := os.Symlink("/nowhere", filepath.Join(dir, "gone")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestRun(t *testing.T) {
	full, empty, copies := image(t), t.TempDir(), t.TempDir()
	list := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(list, []byte("/a\nmissing\n\n../../etc/passwd\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args  []string
		code  int
		says  string
		waits bool
	}{
		"hold waits on a mounted image":           {[]string{"hold", full}, 0, "MiB free", true},
		"hold ends at once on an empty directory": {[]string{"hold", empty}, 1, "is empty", false},
		"hold ends at once on no directory":       {[]string{"hold", empty + "/x"}, 1, "cannot be opened", false},
		"check passes on a mounted image":         {[]string{"check", full}, 0, "", false},
		"check fails on an empty directory":       {[]string{"check", empty}, 1, "is empty", false},
		"read reads all regular files":            {[]string{"read", full}, 0, "read 2 files, 8 bytes, 0 unreadable", false},
		"read counts what it cannot read":         {[]string{"read", full, list}, 0, "read 1 files, 5 bytes, 2 unreadable", false},
		"read without a list file fails":          {[]string{"read", full, list + "x"}, 1, "list of files", false},
		"version says a version":                  {[]string{"version"}, 0, "dev", false},
		"wait waits for its end":                  {[]string{"wait"}, 0, "", true},
		"copy makes a copy":                       {[]string{"copy", filepath.Join(copies, "puller")}, 0, "", false},
		"copy over a copy makes another":          {[]string{"copy", filepath.Join(copies, "puller")}, 0, "", false},
		"copy into no directory fails":            {[]string{"copy", empty + "/x/y"}, 1, "cannot be made", false},
		"anything else shows the usage":           {[]string{"run", full}, 2, "usage:", false},
	} {
		t.Run(name, func(t *testing.T) {
			var out, problems bytes.Buffer
			waited := false
			code := run(c.args, &out, &problems, func() { waited = true })
			if said := out.String() + problems.String(); code != c.code || waited != c.waits || !strings.Contains(said, c.says) {
				t.Errorf("code %d (want %d), waited %v (want %v), said %q (want %q)", code, c.code, waited, c.waits, said, c.says)
			}
		})
	}
}
