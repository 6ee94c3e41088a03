// Vectors between Go's strconv, with which the kubelet quotes annotations, and podgate's own reader and writer.
//
//	go run tests/vectors/main.go quote    writes go-quoted.txt: each text of this file, quoted by Go
//	go run tests/vectors/main.go unquote  checks that Go reads go-quoted.txt and podgate-quoted.txt
//
// tests/pure/annotations.rs runs the second command. A line is the text's bytes in hexadecimal, a tab, and the quoted text.
package main

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unicode/utf8"
)

// texts returns each byte, texts that are special in YAML, JSON and shells, broken UTF-8, and the characters on both sides of
// each boundary between printable and other characters.
func texts() []string {
	all := []string{
		"", "Ready", "a=b", `"`, `\`, `\\"`, `\n`, "two\nlines", "crlf\r\n", "tab\t", "$(VAR) $$", "<>&", "é", "e\u0301", "中文", "😀", "👩‍👩‍👧",
		"\u200b\u200e\u2028\u2029\ufeff", "\u00a0\u00ad", "\ufffd", "\ufffe\uffff", "\U0001fffe", "\U0010ffff", "{\"kind\":\"Pod\"}\n",
		"\xff", "a\xc3", "\xc3\x28", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc0\x80", "ok\xfe then", strings.Repeat("x", 300), strings.Repeat("\\\"", 50),
	}
	for b := 0; b < 256; b++ {
		all = append(all, "<"+string([]byte{byte(b)})+">")
	}
	var edges strings.Builder
	for r := rune(0x80); r <= utf8.MaxRune; r++ {
		if strconv.IsPrint(r) == strconv.IsPrint(r-1) || !utf8.ValidRune(r) || !utf8.ValidRune(r-1) {
			continue
		}
		edges.WriteRune(r - 1)
		edges.WriteRune(r)
		if edges.Len() > 200 {
			all = append(all, edges.String())
			edges.Reset()
		}
	}
	return append(all, edges.String(), "\ud7ff\ue000")
}

func main() {
	_, self, _, _ := runtime.Caller(0)
	directory := filepath.Dir(self)
	if len(os.Args) == 2 && os.Args[1] == "quote" {
		var out strings.Builder
		for _, text := range texts() {
			fmt.Fprintf(&out, "%x\t%s\n", text, strconv.Quote(text))
		}
		if err := os.WriteFile(filepath.Join(directory, "go-quoted.txt"), []byte(out.String()), 0o644); err != nil {
			panic(err)
		}
		return
	}
	lines, wrong := 0, 0
	for _, name := range []string{"go-quoted.txt", "podgate-quoted.txt"} {
		file, err := os.Open(filepath.Join(directory, name))
		if err != nil {
			panic(err)
		}
		for scanner := bufio.NewScanner(file); scanner.Scan(); lines++ {
			text, quoted, _ := strings.Cut(scanner.Text(), "\t")
			want, _ := hex.DecodeString(text)
			if got, err := strconv.Unquote(quoted); err != nil || got != string(want) {
				fmt.Printf("%s: %s gives %q (%v), not %q\n", name, quoted, got, err, want)
				wrong++
			}
		}
	}
	fmt.Printf("%d lines, %d wrong\n", lines, wrong)
	if lines == 0 || wrong > 0 {
		os.Exit(1)
	}
}
