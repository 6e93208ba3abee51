package app

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/config"
)

// A reload that changes a key of routing builds a new pipeline, but for the mode, which is switched.
func TestEveryKeyOfRoutingIsReloaded(t *testing.T) {
	before := newRecipe(config.Default())
	for i := range reflect.TypeFor[config.Routing]().NumField() {
		cfg := config.Default()
		name := reflect.TypeFor[config.Routing]().Field(i).Name
		field := reflect.ValueOf(&cfg.Routing).Elem().Field(i)
		for field.Kind() == reflect.Struct {
			field = field.Field(0)
		}
		switch field.Kind() {
		case reflect.Bool:
			field.SetBool(!field.Bool())
		case reflect.Int:
			field.SetInt(field.Int() + 1)
		case reflect.Float64:
			field.SetFloat(field.Float() + 1)
		default:
			field.SetString("another")
		}
		after := newRecipe(cfg)
		require.Equal(t, name == "Mode" || name == "Policy", reflect.DeepEqual(before, after), name)
	}
}
