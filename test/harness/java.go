package harness

import (
	"fmt"
	"os"
	"path/filepath"
)

// answering answers in a shell what start scripts start a JVM for, five times for a node of OpenSearch: whether
// there is a Java that is fit, which findJDK knows, and whether the keystore, which there is not, has a
// password. All else is for the JDK. It takes a fifth of a start.
const answering = `#!/bin/sh
case "$*" in
-version | *java_version_checker*) exit 0 ;;
*KeyStoreCli\ has-passwd*) exit 1 ;;
esac
exec '%s' "$@"
`

// writeJava writes a folder that start scripts take for a JDK, and returns it.
func (l launcher) writeJava() (home string, err error) {
	home = filepath.Join(l.options.Dir, "java")
	if err := os.MkdirAll(filepath.Join(home, "bin"), 0o755); err != nil {
		return "", fmt.Errorf("make a folder for java: %w", err)
	}
	script := fmt.Sprintf(answering, filepath.Join(l.jdk.Home, "bin", "java"))
	if err := os.WriteFile(filepath.Join(home, "bin", "java"), []byte(script), 0o755); err != nil {
		return "", fmt.Errorf("write java: %w", err)
	}
	return home, nil
}
