/** The rules for the name of an account. */
export const ACCOUNT_NAME = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$/
export const ACCOUNT_RULE = 'letters, digits and . _ @ - only, 64 at most, a letter or digit first'
