//! Teams, keys, quotas, templates: who may do what.
