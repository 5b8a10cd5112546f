// Package install tests what users get from `make install` and `make deb`: silk in its place, and images that every user
// of the machine can run programs in.
//
// The tests call the scripts in deploy, with a scratch directory in place of the root directory. They need the built
// silk and lab:text.
package install
