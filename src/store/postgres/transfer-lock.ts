/**
 * The lock of a transfer, held as long as its transaction: servers and commands request it before anything else (schema.ts),
 * and do not start without it.
 */

/** An advisory lock of this schema, as the argument of Postgres's functions for them. */
export const TRANSFER_LOCK = `hashtextextended('copy of ' || current_schema(), 0)`
