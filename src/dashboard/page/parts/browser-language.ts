/**
 * Makes sure that `Intl` accepts the browser's language. Browsers started with a POSIX locale may report a language that it
 * rejects, for example `en-US@posix`, and then uPlot throws while it is imported. Import this module before uPlot.
 */
try {
  new Intl.NumberFormat(navigator.language)
} catch {
  Object.defineProperty(navigator, 'language', { value: 'en', configurable: true })
}

export {}
