/** Saves data of this page as a file, through the browser. */
export function saveAs(content: Blob, name: string): void {
  const url = URL.createObjectURL(content)
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  // The download has started when `click` returns, so the URL is no longer needed.
  URL.revokeObjectURL(url)
}
