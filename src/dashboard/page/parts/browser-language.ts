/**
 * Makes sure that `Intl` accepts the browser's language. With a POSIX locale, a browser may report a language that `Intl`
 * rejects, such as `en-US@posix`, and uPlot would fail to load. So this module must be imported before uPlot.
 */
try {
  new Intl.NumberFormat(navigator.language)
} catch {
  Object.defineProperty(navigator, 'language', { value: 'en', configurable: true })
}

export {}
