package image_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/silk-sandbox/silk/image"
)

// A root filesystem is put together in a tree, stored under its digest, and opened for a sandbox.
func Example() {
	home, err := os.MkdirTemp("", "silk-example-*")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(home)

	tree, err := image.NewTree(image.TreeConfig{SpoolDir: home})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer tree.Close()
	if err := tree.AddSymlink("/bin", "usr/bin"); err != nil {
		fmt.Println(err)
		return
	}
	script := strings.NewReader("#!/bin/sh\necho hello\n")
	if err := tree.AddFile("/bin/hello", 0o755, time.Unix(0, 0), script); err != nil { // lands in /usr/bin
		fmt.Println(err)
		return
	}

	store, err := image.Open(image.Config{Home: home})
	if err != nil {
		fmt.Println(err)
		return
	}
	stored, err := store.Put(context.Background(), tree.WriteEROFS, image.Meta{Source: "example"}, "hello")
	if err != nil {
		fmt.Println(err)
		return
	}
	found, err := store.Resolve(stored.Digest.Short())
	if err != nil {
		fmt.Println(err)
		return
	}
	root, err := store.OpenRoot(found)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer root.Close()
	for entry := range tree.All() {
		fmt.Println(entry.Mode, entry.Path)
	}
	fmt.Println(found.Digest.Short(), found.SizeBytes)
	// Output:
	// drwxr-xr-x /
	// Lrwxrwxrwx /bin
	// drwxr-xr-x /usr
	// drwxr-xr-x /usr/bin
	// -rwxr-xr-x /usr/bin/hello
	// 14b4f19a4085 8192
}
