# R takes a tilde for somebody's home.
if (startsWith(argument, "~")) argument <- paste0("./", argument)
setwd(argument)
