/** The button that switches between light and dark colours. */
import { html } from 'htm/preact'
import { useEffect, useState } from 'preact/hooks'
import { isDark, onThemeChange, setTheme } from '../theme.ts'
import { Icon } from './icon.ts'

export function ThemeSwitch() {
  const [dark, setDark] = useState(isDark())
  useEffect(() => onThemeChange(() => setDark(isDark())), [])
  const words = dark ? 'Switch to light colours' : 'Switch to dark colours'
  return html`<button type="button" class="icon-button" aria-label=${words} title=${words} onClick=${() => setTheme(dark ? 'light' : 'dark')}>
    <${Icon} name=${dark ? 'sun' : 'moon'} />
  </button>`
}
