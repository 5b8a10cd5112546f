//go:build !unix

package webhook

const nonBlock = 0
