# Runs pieces of code that come in lines of hexadecimal words, and tells what variables are.

local({
    decode <- function(word) {
        digits <- strtoi(strsplit(substring(word, 2L), "")[[1L]], 16L)
        odd <- seq_along(digits) %% 2L == 1L
        rawToChar(as.raw(digits[odd] * 16L + digits[!odd]))
    }
    encode <- function(value) {
        if (is.na(value)) "-" else paste(c("x", format(charToRaw(value))), collapse = "")
    }
    input <- file("stdin", "r")
    while (length(line <- readLines(input, 1L))) {
        words <- vapply(strsplit(line, " ")[[1L]], decode, "", USE.NAMES = FALSE)
        eval(parse(text = words[[1L]]), globalenv())
        stopifnot(identical(ls(globalenv(), all.names = TRUE), character()))
        names <- words[-1L]
        values <- if (length(names)) Sys.getenv(names, unset = NA, names = FALSE)
        cat(vapply(c(values, getwd()), encode, ""), "\n")
        flush(stdout())
    }
})
