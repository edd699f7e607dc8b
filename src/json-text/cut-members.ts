/**
 * Cuts the source text of some members out of JSON text, with the meaning of `JSON.parse`: a name may be escaped, and the last
 * of several members with the same name counts.
 */
import { skipSpace, stringEnd, valueEnd } from './scan-json.ts'

/** The members to cut: each name has its number in the result, or the members to cut inside it. */
export type WantedMembers = ReadonlyMap<string, number | WantedMembers>

/** A member's text by its number; null if the object does not have the member. */
export type CutTexts = (string | null)[]

const BRACE = 0x7b
const BRACKET = 0x5b

/** @param text a JSON text; only an object has members */
export function cutMembers(text: string, wanted: WantedMembers): CutTexts {
  const cut: CutTexts = []
  clear(wanted, cut)
  const at = skipSpace(text, 0)
  if (text.charCodeAt(at) === BRACE) cutObject(text, at, wanted, cut)
  return cut
}

/** Does the same for each element of an array; empty if the text is something else. */
export function cutMembersOfEach(text: string, wanted: WantedMembers): CutTexts[] {
  const each: CutTexts[] = []
  let at = skipSpace(text, 0)
  if (text.charCodeAt(at) !== BRACKET) return each
  for (at = skipSpace(text, at + 1); at < text.length && text[at] !== ']'; ) {
    const cut: CutTexts = []
    clear(wanted, cut)
    const end = text.charCodeAt(at) === BRACE ? cutObject(text, at, wanted, cut) : valueEnd(text, at)
    each.push(cut)
    at = skipSpace(text, end)
    if (text[at] === ',') at = skipSpace(text, at + 1)
  }
  return each
}

/** Returns the index after the object that starts at `from`. */
function cutObject(text: string, from: number, wanted: WantedMembers, cut: CutTexts): number {
  let at = skipSpace(text, from + 1)
  while (at < text.length && text[at] !== '}') {
    const nameEnd = stringEnd(text, at + 1)
    const member = wanted.get(nameOf(text, at, nameEnd))
    at = skipSpace(text, skipSpace(text, nameEnd + 1) + 1)
    const end = member === undefined ? valueEnd(text, at) : cutValue(text, at, member, cut)
    at = skipSpace(text, end)
    if (text[at] === ',') at = skipSpace(text, at + 1)
  }
  return at + 1
}

function cutValue(text: string, at: number, member: number | WantedMembers, cut: CutTexts): number {
  if (typeof member === 'number') {
    const end = valueEnd(text, at)
    cut[member] = text.slice(at, end)
    return end
  }
  // This member replaces an earlier one of the same name, with everything in it.
  clear(member, cut)
  return text.charCodeAt(at) === BRACE ? cutObject(text, at, member, cut) : valueEnd(text, at)
}

function clear(wanted: WantedMembers, cut: CutTexts): void {
  for (const member of wanted.values()) {
    if (typeof member === 'number') cut[member] = null
    else clear(member, cut)
  }
}

/** The longest spelling of a name: every character may be written as `\u0061`. */
const LONGEST_NAME = 6 * 32

/** Returns the unescaped name between the quotes. A name longer than all requested ones is not read. */
function nameOf(text: string, quote: number, end: number): string {
  if (end - quote > LONGEST_NAME) return ''
  const name = text.slice(quote + 1, end)
  return name.includes('\\') ? (JSON.parse(`"${name}"`) as string) : name
}
