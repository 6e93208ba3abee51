package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
)

// scrapeLog logs what goes wrong while metrics are told. It implements promhttp.Logger.
type scrapeLog struct{ logger *slog.Logger }

// Println logs an error. When a client goes away in the middle there is one for each family of metrics, which is no trouble
// of ours.
func (l scrapeLog) Println(v ...any) {
	level := slog.LevelError
	for _, part := range v {
		if err, ok := part.(error); ok && errors.As(err, new(*net.OpError)) {
			level = slog.LevelDebug
		}
	}
	l.logger.Log(context.Background(), level, strings.TrimSuffix(fmt.Sprintln(v...), "\n"))
}
