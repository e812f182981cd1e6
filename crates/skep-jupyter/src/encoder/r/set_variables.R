saved <- getOption("skep.saved", character())
new <- argument$names[!(argument$names %in% names(saved))]
if (length(new)) {
    before <- Sys.getenv(new, unset = NA, names = FALSE)
    options(skep.saved = c(saved, structure(before, names = new)))
}
if (length(argument$names)) {
    do.call(Sys.setenv, structure(as.list(argument$values), names = argument$names))
}
