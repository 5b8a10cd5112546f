package gvisor_test

import (
	"os"
	"testing"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/drivertest"
	"github.com/silk-sandbox/silk/driver/gvisor"
	"github.com/silk-sandbox/silk/image/imagetest"
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
	return imagetest.Root(t, labText)
}

func TestConformance(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) driver.Driver { return newDriver(t) }, openImage, drivertest.Shell)
}
