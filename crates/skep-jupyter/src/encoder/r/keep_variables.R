kept <- getOption("skep.kept", list(values = character(), before = character()))
for (name in setdiff(names(kept$values), argument$names)) {
    before <- kept$before[[name]]
    if (is.na(before)) Sys.unsetenv(name)
    else do.call(Sys.setenv, structure(list(before), names = name))
}
still <- names(kept$values) %in% argument$names
kept <- list(values = kept$values[still], before = kept$before[still])
for (index in seq_along(argument$names)) {
    name <- argument$names[[index]]
    value <- argument$values[[index]]
    is_known <- name %in% names(kept$values)
    if (is_known && identical(kept$values[[name]], value)) next
    if (!is_known) kept$before[[name]] <- Sys.getenv(name, unset = NA, names = FALSE)
    kept$values[[name]] <- value
    do.call(Sys.setenv, structure(list(value), names = name))
}
options(skep.kept = kept)
