package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"time"
)

// pack returns a compressed archive of one folder. All files have one time and no owner.
func pack(folder string, at time.Time, files []file) ([]byte, error) {
	var out bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	archive := tar.NewWriter(compressed)
	header := tar.Header{Typeflag: tar.TypeDir, Name: folder + "/", Mode: 0o755, ModTime: at, Format: tar.FormatUSTAR}
	if err := archive.WriteHeader(&header); err != nil {
		return nil, fmt.Errorf("pack %s: %w", folder, err)
	}
	for _, f := range files {
		header := tar.Header{
			Typeflag: tar.TypeReg, Name: folder + "/" + f.name, Mode: int64(f.mode), Size: int64(len(f.data)),
			ModTime: at, Format: tar.FormatUSTAR,
		}
		if err := archive.WriteHeader(&header); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.name, err)
		}
		if _, err := archive.Write(f.data); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.name, err)
		}
	}
	if err := archive.Close(); err != nil {
		return nil, fmt.Errorf("pack %s: %w", folder, err)
	}
	if err := compressed.Close(); err != nil {
		return nil, fmt.Errorf("pack %s: %w", folder, err)
	}
	return out.Bytes(), nil
}
