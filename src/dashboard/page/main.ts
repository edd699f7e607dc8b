/** The entry point of the dashboard. */
import { html, render } from 'htm/preact'
import { App } from './app.ts'
import { followLinks } from './router.ts'
import { beginTheme } from './theme.ts'

beginTheme()
followLinks()
const root = document.getElementById('app')
if (root) render(html`<${App} />`, root)
