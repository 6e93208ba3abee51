package harness

import (
	"archive/zip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseRelease(t *testing.T) {
	r, err := parseRelease(OpenSearch, "3.6.0")
	require.NoError(t, err)
	require.Equal(t, release{distribution: OpenSearch, version: "3.6.0", major: 3}, r)
	for distribution, version := range map[string]string{"solr": "9.1.0", OpenSearch: "latest", Elasticsearch: "8.19.4/../x"} {
		_, err := parseRelease(distribution, version)
		require.Error(t, err, "%s %s", distribution, version)
	}
}

// fakeJDK makes a folder that looks like an installed JDK.
func fakeJDK(t *testing.T, version string) string {
	t.Helper()
	home := filepath.Join(t.TempDir(), "jdk")
	require.NoError(t, os.MkdirAll(filepath.Join(home, "bin"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(home, "bin", "java"), nil, 0o755))
	text := "IMPLEMENTOR=\"x\"\nJAVA_VERSION=" + strconv.Quote(version) + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(home, "release"), []byte(text), 0o644))
	return home
}

func TestJavaMajor(t *testing.T) {
	for version, want := range map[string]int{"25.0.3": 25, "17.0.15": 17, "21": 21, "1.8.0_292": 8, "24-ea": 24, "x": 0} {
		require.Equal(t, want, javaMajor(fakeJDK(t, version)), version)
	}
	require.Zero(t, javaMajor(t.TempDir()))
}

func TestMissingJDKSaysWhatToInstall(t *testing.T) {
	t.Setenv("JAVA_HOME", fakeJDK(t, "999.0.1"))
	found, err := release{distribution: OpenSearch, version: "3.6.0", major: 3}.findJDK()
	require.NoError(t, err)
	require.Equal(t, 999, found.Major)

	_, err = pickJDK(release{distribution: OpenSearch, version: "3.6.0", major: 3}, []jdk{{Home: "/a", Major: 17}})
	require.EqualError(t, err, "opensearch 3.6.0 needs a JDK 21 or newer and found only 17 in /a: "+
		"install one (Debian package openjdk-21-jre-headless or a Temurin JDK) or point JAVA_HOME at it")
	_, err = pickJDK(release{distribution: Elasticsearch, version: "7.17.10", major: 7}, []jdk{{Home: "/b", Major: 25}})
	require.ErrorContains(t, err, "needs a JDK from 17 to 23 and found only 25 in /b")
	_, err = pickJDK(release{distribution: Elasticsearch, version: "8.19.4", major: 8}, nil)
	require.ErrorContains(t, err, "none is installed")
}

func TestUnzipKeepsExecutablesAndStaysInside(t *testing.T) {
	pack := func(names ...string) string {
		path := filepath.Join(t.TempDir(), "a.zip")
		file, err := os.Create(path)
		require.NoError(t, err)
		w := zip.NewWriter(file)
		for _, name := range names {
			header := &zip.FileHeader{Name: name}
			header.SetMode(0o750)
			_, err := w.CreateHeader(header)
			require.NoError(t, err)
		}
		require.NoError(t, w.Close())
		require.NoError(t, file.Close())
		return path
	}
	dir := t.TempDir()
	require.NoError(t, unzip(pack("x/bin/start"), dir))
	info, err := os.Stat(filepath.Join(dir, "x", "bin", "start"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o754), info.Mode().Perm())
	require.ErrorContains(t, unzip(pack("../out"), dir), "leads out of the archive")
}

// Tests that are killed, as by Ctrl-C, leave the data of their clusters behind.
func TestDataOfClustersThatWereLeftBehindGoes(t *testing.T) {
	ended := exec.CommandContext(t.Context(), "true")
	require.NoError(t, ended.Run())
	gone, long, now := ended.Process.Pid, time.Now().Add(-2*time.Hour).UnixNano(), time.Now().UnixNano()
	parent := t.TempDir()
	for folder, stays := range map[string]bool{
		fmt.Sprintf(clusterFolder, gone, long): false, fmt.Sprintf(clusterFolder, gone, now): true,
		fmt.Sprintf(clusterFolder, os.Getpid(), long): true, "sidestep-engine-x": true,
	} {
		node := filepath.Join(parent, folder, "node-1")
		for _, name := range []string{"data", "tmp", "logs"} {
			require.NoError(t, os.MkdirAll(filepath.Join(node, name, "x"), 0o755))
		}
		sweep(parent)
		require.DirExists(t, filepath.Join(node, "logs", "x"))
		for _, name := range []string{"data", "tmp"} {
			_, err := os.Stat(filepath.Join(node, name))
			require.Equal(t, stays, err == nil, "%s of %s", name, folder)
		}
	}
}

func TestTrimJVMOptions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jvm.options")
	text := "-Xms1g\n9-:-Xlog:gc*:file=logs/gc.log\n-XX:ErrorFile=logs/e.log\n11-:-XX:+UseG1GC\n-XX:HeapDumpPath=data\n"
	for serial, want := range map[bool]string{false: "-Xms1g\n11-:-XX:+UseG1GC\n", true: "-Xms1g\n"} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		require.NoError(t, trimJVMOptions(path, serial))
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, want, string(data))
	}
}

func TestFaults(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok")
	}))
	defer server.Close()
	address, err := url.Parse(server.URL)
	require.NoError(t, err)
	port, err := strconv.Atoi(address.Port())
	require.NoError(t, err)
	f, err := newFault("test", port)
	require.NoError(t, err)
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	get := func() error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+loopback(f.port), http.NoBody)
		require.NoError(t, err)
		res, err := client.Do(req)
		if err == nil {
			require.NoError(t, res.Body.Close())
		}
		return err
	}
	var refused *net.OpError
	require.ErrorAs(t, get(), &refused, "refuses until it is opened")
	require.NoError(t, f.open())
	require.NoError(t, f.open(), "twice is once")
	defer f.close()
	require.NoError(t, get())

	n := &Node{Name: "node-1", http: f, transport: f}
	require.NoError(t, n.SlowHTTP(150*time.Millisecond, 0))
	began := time.Now()
	require.NoError(t, get())
	require.GreaterOrEqual(t, time.Since(began), 150*time.Millisecond)
	f.proxy.Toxics.ResetToxics(t.Context())
	require.NoError(t, n.BlackholeHTTP())
	client.Timeout = 400 * time.Millisecond
	require.True(t, os.IsTimeout(get()), "swallows everything")
	client.Timeout = time.Minute
	f.proxy.Toxics.ResetToxics(t.Context())
	require.NoError(t, get())
	require.NoError(t, n.RefuseHTTP())
	require.ErrorAs(t, get(), &refused)

	require.ErrorIs(t, new(Node).SlowTransport(time.Second, 0), errNotProxied)
}

func TestSearchesRepeat(t *testing.T) {
	text := func(i int) string {
		body, err := io.ReadAll(Search("products", i).Body)
		require.NoError(t, err)
		return string(body)
	}
	first, again := text(1), text(1)
	require.Equal(t, first, again)
	require.NotEqual(t, text(1), text(2))
	require.Equal(t, "/products/_search", Search("products", 1).URL.Path)
}
