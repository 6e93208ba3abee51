package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatStartScriptsAskOfJava(t *testing.T) {
	home := filepath.Join(t.TempDir(), "a jdk")
	require.NoError(t, os.MkdirAll(filepath.Join(home, "bin"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(home, "bin", "java"), []byte("#!/bin/sh\nprintf '%s|' \"$@\"\nexit 7\n"), 0o755))
	l := launcher{jdk: jdk{Home: home}, options: ClusterOptions{Dir: t.TempDir()}}
	java, err := l.writeJava()
	require.NoError(t, err)
	for _, c := range []struct {
		arguments []string
		code      int
		said      string
	}{
		{[]string{"-version"}, 0, ""},
		{[]string{"-Xshare:auto", "-cp", "lib/*", "org.opensearch.tools.java_version_checker.JavaVersionChecker"}, 0, ""},
		{[]string{"-Xms4m", "-cp", "lib/*", "org.opensearch.tools.cli.keystore.KeyStoreCli", "has-passwd", "--silent"}, 1, ""},
		{[]string{"-Dtext=a b", "org.opensearch.bootstrap.OpenSearch"}, 7, "-Dtext=a b|org.opensearch.bootstrap.OpenSearch|"},
		{[]string{"-XX:+PrintFlagsFinal", "-version"}, 7, "-XX:+PrintFlagsFinal|-version|"},
	} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(java, "bin", "java"), c.arguments...)
		said, _ := cmd.Output()
		require.Equal(t, c.code, cmd.ProcessState.ExitCode(), c.arguments)
		require.Equal(t, c.said, string(said))
	}
}
