package retention

import (
	"testing"

	"github.com/silk-sandbox/silk/store/storetest"
)

func TestOnPostgres(t *testing.T) { storetest.OnPostgres(t) }
