//! What runs inside a sandbox: processes and files.
