/** The request as code, in one tab per language. */
import { html } from 'htm/preact'
import { useId, useState } from 'preact/hooks'
import { CodeBlock } from '../parts/code-block.ts'
import { Panel } from '../parts/panel.ts'
import type { Draft } from './draft.ts'
import { LANGUAGES, type Language, programFor } from './programs.ts'

export function CodePanel({ draft }: { readonly draft: Draft }) {
  const id = useId()
  const [language, setLanguage] = useState<Language>('curl')
  const onKeyDown = (event: KeyboardEvent) => {
    const by = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0
    if (by === 0) return
    const next = LANGUAGES[(LANGUAGES.indexOf(language) + by + LANGUAGES.length) % LANGUAGES.length] ?? 'curl'
    setLanguage(next)
    document.getElementById(`${id}-${next}`)?.focus()
  }
  return html`<${Panel} title="The request as code">
    <div class="segments" role="tablist" aria-label="Language" onKeyDown=${onKeyDown}>
      ${LANGUAGES.map(
        (
          one,
        ) => html`<button type="button" role="tab" key=${one} id=${`${id}-${one}`} aria-controls=${`${id}-panel`}
        aria-selected=${one === language ? 'true' : 'false'} tabindex=${one === language ? 0 : -1} onClick=${() => setLanguage(one)}>${one}</button>`,
      )}
    </div>
    <div role="tabpanel" id=${`${id}-panel`} aria-labelledby=${`${id}-${language}`}>
      <${CodeBlock} text=${programFor(language, draft, location.origin)} what=${`the ${language} program`} />
    </div>
  <//>`
}
