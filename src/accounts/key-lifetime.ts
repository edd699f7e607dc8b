/** The longest lifetime of a key, a hundred years. It has a file of its own for commands that need nothing else of keys. */
export const MOST_DAYS = 36_500
