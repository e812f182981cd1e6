executor <- environment(getOption("jupyter.base_display_func"))
kernel <- environment(executor$send_response)
namespace <- asNamespace("IRkernel")
replace <- function(name, value, place) {
    if (bindingIsLocked(name, place)) unlockBinding(name, place)
    assign(name, value, envir = place)
}

# Output waits for its reader; by itself the socket drops what is more than a thousand messages
# (option XPUB_NODROP of ZeroMQ).
pbdZMQ::zmq.setsockopt(kernel$sockets$iopub, 69L, 1L)

# An interrupt is for the user's code, or for a kernel that waits and forgets it. Anywhere
# else it would end the kernel.
imports <- parent.env(namespace)
evaluate <- imports$evaluate
replace("evaluate", function(...) {
    is_users <- "envir" %in% ...names()
    if (is_users) allowInterrupts(evaluate(...)) else evaluate(...)
}, imports)
poll <- imports$zmq.poll
replace("zmq.poll", function(socket, type, timeout, MC = pbdZMQ::ZMQ.MC()) {
    if (!missing(timeout)) return(poll(socket, type, timeout, MC = MC))
    result <- allowInterrupts(poll(socket, type, MC = MC))
    .Internal(interruptsSuspended(TRUE))
    result
}, imports)
handle_shell <- kernel$handle_shell
replace("handle_shell", function() suspendInterrupts(handle_shell()), kernel)

# Nobody answers questions here.
unanswered <- function(name) {
    force(name)
    function(prompt = "") {
        stop(name, " was called, but this frontend does not support input requests.", call. = FALSE)
    }
}
replace("readline", unanswered("readline"), executor)
replace("get_pass", unanswered("getPass"), executor)

# Pictures are base64 in one line, long texts come in pieces, and a traceback ends where the
# user's code does.
send <- executor$send_response
piece <- 65536L
replace("send_response", function(msg_type, parent_msg, socket_name, content) {
    if (is.list(content$data)) {
        is_raw <- vapply(content$data, is.raw, NA)
        content$data[is_raw] <- lapply(content$data[is_raw], base64enc::base64encode)
    }
    if (identical(msg_type, "error")) {
        internal <- vapply(content$traceback, grepl, NA, fixed = TRUE,
            pattern = "watcher$capture_plot_and_output()")
        content$traceback <- content$traceback[!internal]
    }
    if (identical(msg_type, "stream") && nchar(content$text) > piece) {
        begins <- seq(1L, nchar(content$text), piece)
        for (text in substring(content$text, begins, begins + piece - 1L)) {
            send(msg_type, parent_msg, socket_name, list(name = content$name, text = text))
        }
        return(invisible())
    }
    send(msg_type, parent_msg, socket_name, content)
}, executor)

# Much output is read in a time that grows with its length, not with its square.
evaluates <- asNamespace("evaluate")
if (exists("read_con", evaluates, inherits = FALSE)) replace("read_con", function(con, ...) {
    pieces <- list()
    while (length(read <- readBin(con, raw(), 1048576L))) pieces[[length(pieces) + 1L]] <- read
    if (length(pieces)) rawToChar(unlist(pieces))
}, evaluates)

# What was printed is shown when the code asks for it, and before it sleeps, instead of at the
# end of the whole statement.
flush <- getExportedValue("evaluate", "flush_console")
sleep <- Sys.sleep
replace("Sys.sleep", function(time) { flush(); sleep(time) }, baseenv())
for (place in list(asNamespace("utils"), as.environment("package:utils"))) {
    replace("flush.console", function() flush(), place)
}
