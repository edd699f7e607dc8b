/** Splits TypeScript source into code and prose, so that tests can check names and sentences separately. */

export interface SourceText {
  readonly code: string
  readonly prose: readonly { readonly line: number; readonly text: string }[]
}

/** Regular expressions count as code. None in the sources contains quotes or comment marks that would mislead this function. */
export function splitSource(source: string): SourceText {
  const prose: { line: number; text: string }[] = []
  let code = ''
  let at = 0
  let line = 1
  /** Each entry is an open brace. It is true if the brace begins an expression in a template. */
  const braces: boolean[] = []
  const take = (end: number, isProse: boolean) => {
    const text = source.slice(at, end)
    if (isProse) prose.push({ line, text })
    code += isProse ? ' '.padEnd(text.split('\n').length, '\n') : text
    line += text.split('\n').length - 1
    at = end
  }
  const takeTemplate = () => {
    const found = /(?:[^`\\$]|\\.|\$(?!\{))*(?:`|\$\{|$)/sy
    found.lastIndex = at
    const [text = ''] = found.exec(source) ?? []
    take(at + text.length, true)
    if (text.endsWith('${')) braces.push(true)
  }
  while (at < source.length) {
    const rest = source.slice(at, at + 2)
    const [quoted] = /^(?:'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")/.exec(source.slice(at, at + 2000)) ?? []
    if (rest === '//') take(endOf(source, '\n', at), true)
    else if (rest === '/*') take(endOf(source, '*/', at) + 2, true)
    else if (quoted !== undefined) take(at + quoted.length, true)
    else if (rest.startsWith('`')) {
      take(at + 1, false)
      takeTemplate()
    } else {
      const isBrace = rest.startsWith('{') || rest.startsWith('}')
      if (rest.startsWith('{')) braces.push(false)
      const endsExpression = rest.startsWith('}') && braces.pop() === true
      take(isBrace ? at + 1 : nextToken(source, at), false)
      if (endsExpression) takeTemplate()
    }
  }
  return { code, prose }
}

function endOf(source: string, mark: string, from: number): number {
  const found = source.indexOf(mark, from)
  return found === -1 ? source.length : found
}

/** Returns the index of the next character that can begin a comment, a string or a brace. */
function nextToken(source: string, from: number): number {
  const token = /[/'"`{}]/g
  token.lastIndex = from + 1
  return token.exec(source)?.index ?? source.length
}

/** The words of `claimNextJob` are `claim next job`. */
export function identifiersIn(code: string): readonly { readonly name: string; readonly words: string }[] {
  return [...new Set(code.match(/[A-Za-z_$][\w$]*/g) ?? [])].map((name) => ({
    name,
    words: name
      .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
      .replace(/[_$]+/g, ' ')
      .trim()
      .toLowerCase(),
  }))
}
