/**
 * Cuts the source text of some members out of JSON text. It finds the same members as `JSON.parse`: names may be escaped, and
 * the last of several members with the same name counts.
 */
import { skipSpace, stringEnd, valueEnd } from './scan-json.ts'

/** Maps the name of each member to its number in the result, or to the members to cut inside it. */
export type WantedMembers = ReadonlyMap<string, number | WantedMembers>

/** Lists the text of each member by its number; null if the object does not have the member. */
export type CutTexts = (string | null)[]

const BRACE = 0x7b
const BRACKET = 0x5b

/** @param text JSON text. If it is not an object, no member is found */
export function cutMembers(text: string, wanted: WantedMembers): CutTexts {
  const cut: CutTexts = []
  clear(wanted, cut)
  const at = skipSpace(text, 0)
  if (text.charCodeAt(at) === BRACE) cutObject(text, at, wanted, cut)
  return cut
}

/** Does the same for each element of an array. Returns an empty list if the text is not an array. */
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

/** Returns the index after the object. */
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
  // This member replaces an earlier one with the same name, including everything inside the earlier one.
  clear(member, cut)
  return text.charCodeAt(at) === BRACE ? cutObject(text, at, member, cut) : valueEnd(text, at)
}

function clear(wanted: WantedMembers, cut: CutTexts): void {
  for (const member of wanted.values()) {
    if (typeof member === 'number') cut[member] = null
    else clear(member, cut)
  }
}

/** A name with a longer text is not wanted, even if each of its characters is escaped, such as `\u0061`. */
const LONGEST_NAME = 6 * 32

/** Returns the unescaped name between two quotes; an empty one for a name that is longer than any wanted name. */
function nameOf(text: string, quote: number, end: number): string {
  if (end - quote > LONGEST_NAME) return ''
  const name = text.slice(quote + 1, end)
  return name.includes('\\') ? (JSON.parse(`"${name}"`) as string) : name
}
