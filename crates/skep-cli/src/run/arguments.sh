eval "set -- $_RUN_ORDER"; unset _RUN_ORDER
