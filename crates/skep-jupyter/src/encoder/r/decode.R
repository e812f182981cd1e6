decode <- function(texts) {
    decoded <- character(length(texts))
    for (index in seq_along(texts)) {
        digits <- utf8ToInt(texts[[index]])
        digits <- digits - ifelse(digits > 57L, 87L, 48L)
        odd <- seq_along(digits) %% 2L == 1L
        decoded[[index]] <- rawToChar(as.raw(digits[odd] * 16L + digits[!odd]))
    }
    decoded
}
