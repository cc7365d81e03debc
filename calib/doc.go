// Package calib turns text into rows of tokens, for calibration and for
// measuring perplexity.
//
// The nouns: a [Source] is a file of text, Parquet, JSON or plain, told
// apart by what it holds; it yields records. A [Record] is one text, or the
// token ids of one. A [Cut] says how tokens are made and how many rows of
// which length are wanted. [Rows] tokenizes every record alone, [Joined] all of
// them as one text; [BuiltinRows] takes the set that is embedded in the
// program.
//
// Sources are read as a stream, and no further than the rows need. Files may
// be damaged or hostile: what is wrong with them is an error of one line that
// names the file and the row.
package calib
