// Command puller is what runs in Harbinger's puller Pods. The kubelet pulls the image to be warmed because the Pod mounts it as an image
// volume; this program only proves that the volume is there, keeps it mounted (an image in use survives the kubelet's garbage collection), and for
// lazily pulled formats reads it, which brings the bytes to the node. Where there are no image volumes, it copies itself into a container of the
// image and waits there. Nothing of the image is ever executed.
package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

var version = "dev"

const usage = `usage:
  puller hold DIR         check DIR, then wait for SIGTERM
  puller wait             wait for SIGTERM
  puller copy FILE        copy this program to FILE
  puller check DIR        exit 0 when DIR holds something (startup probe)
  puller read DIR [LIST]  read every file under DIR, or those named by the lines of LIST
  puller version`

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, waitForEnd))
}

func run(args []string, out, problems io.Writer, wait func()) int {
	fail := func(err error) int {
		fmt.Fprintln(problems, "puller:", err)
		return 1
	}
	switch {
	case len(args) == 2 && args[0] == "check":
		if err := check(args[1]); err != nil {
			return fail(err)
		}
	case len(args) == 2 && args[0] == "hold":
		if err := check(args[1]); err != nil {
			return fail(err)
		}
		fmt.Fprintf(out, "holding %s, %s free for this container\n", args[1], freeSpace("/"))
		wait()
	case len(args) == 1 && args[0] == "wait":
		wait()
	case len(args) == 2 && args[0] == "copy":
		if err := copySelf(args[1]); err != nil {
			return fail(err)
		}
	case (len(args) == 2 || len(args) == 3) && args[0] == "read":
		list := ""
		if len(args) == 3 {
			list = args[2]
		}
		result, err := read(args[1], list)
		if err != nil {
			return fail(err)
		}
		fmt.Fprintln(out, result)
	case len(args) == 1 && args[0] == "version":
		fmt.Fprintln(out, version)
	default:
		fmt.Fprintln(problems, usage)
		return 2
	}
	return 0
}

// waitForEnd returns on SIGTERM or SIGINT. As PID 1 the program gets only signals that it asks for; it has no children to reap.
func waitForEnd() {
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGTERM, syscall.SIGINT)
	<-ends
}

func check(dir string) error {
	entries, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("%s cannot be opened: %w; the image volume is not mounted there", dir, err)
	}
	defer entries.Close()
	if _, err := entries.ReadDir(1); err == io.EOF {
		return fmt.Errorf("%s is empty: the image volume is not mounted, or the image has no files", dir)
	} else if err != nil {
		return fmt.Errorf("%s cannot be read: %w", dir, err)
	}
	return nil
}

// copySelf writes this program to path, for all to execute: the container of the image runs as the same user, but need not.
func copySelf(path string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("this program cannot find itself: %w", err)
	}
	from, err := os.Open(self)
	if err != nil {
		return fmt.Errorf("this program cannot be read: %w", err)
	}
	defer from.Close()
	// Not in place: a container that was restarted may still be running the copy.
	to, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o555)
	if err != nil {
		return fmt.Errorf("the copy cannot be made: %w", err)
	}
	if _, err := io.Copy(to, from); err != nil {
		to.Close()
		return fmt.Errorf("the copy cannot be written: %w", err)
	}
	if err := to.Close(); err != nil {
		return fmt.Errorf("the copy cannot be written: %w", err)
	}
	return os.Rename(path+".new", path)
}

func freeSpace(dir string) string {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return "an unknown number of bytes"
	}
	return fmt.Sprintf("%d MiB", fs.Bavail*uint64(fs.Bsize)>>20)
}
