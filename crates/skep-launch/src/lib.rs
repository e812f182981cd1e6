//! The launch plan and the single-threaded launcher that carries it out.
