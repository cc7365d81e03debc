// Package pages reads the pages of a Parquet file for arrow's column readers
// and checks them first: arrow trusts the sizes, counts and indexes of a file,
// and on one that lies it may panic, allocate what the file asks for, loop
// without end, or return values that are not there.
//
// The nouns: a chunk is one column of one row group; a [Reader] yields its
// pages, decompressed; a page is what [file.Page] of arrow says. [Open] does the
// same duty for the file's metadata.
// Format: https://github.com/apache/parquet-format
package pages
