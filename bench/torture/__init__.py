"""Attack fastspml with hostile files and requests, misuse, threads, signals and lost clusters, and count the answers.

An attempt is a pure function of (seed, target, number). It ends in one of three ways:

identical   the content is that of the original. Where a change cannot be noticed (formats without checksums, checksums
            that were forged), the object is valid, works, and is the same after writing and reading.
sentence    one of the library's kinds of errors, with a message of one line.
defect      a crash, a hang, exhausted memory, any other error, or different content without a word.
"""
