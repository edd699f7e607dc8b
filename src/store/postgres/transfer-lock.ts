/**
 * What a copy holds for as long as its transaction: servers and commands ask for it before anything else, by schema.ts, and
 * are refused.
 */

/** An advisory lock of this schema, as the argument of Postgres's functions for them. */
export const COPY_LOCK = `hashtextextended('copy of ' || current_schema(), 0)`
