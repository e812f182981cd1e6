//! Templates: recipes, layers, the content store.
