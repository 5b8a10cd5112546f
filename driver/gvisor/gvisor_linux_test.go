package gvisor_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/drivertest"
	"github.com/silk-sandbox/silk/driver/gvisor"
	"github.com/silk-sandbox/silk/image"
	"github.com/silk-sandbox/silk/internal/testenv"
)

const labText = "lab:text"

func newDriver(t *testing.T) *gvisor.Driver {
	t.Helper()
	testenv.Require(t, testenv.Sentry, testenv.Image(labText))
	d, err := gvisor.New(gvisor.Config{Sentry: testenv.SentryPath()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func openImage(t *testing.T) *os.File {
	t.Helper()
	store, err := image.Open(image.Config{Home: filepath.Join(testenv.Home(), "images")})
	if err != nil {
		t.Fatal(err)
	}
	img, err := store.Resolve(labText)
	if err != nil {
		t.Fatal(err)
	}
	root, err := store.OpenRoot(img)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func TestConformance(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) driver.Driver { return newDriver(t) }, openImage, drivertest.Shell)
}
