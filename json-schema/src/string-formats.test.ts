import assert from 'node:assert/strict'
import { test } from 'node:test'
import { domainToASCII } from 'node:url'
import { FORMAT_NAMES, type FormatName, isEncodedLabel, isFormatName, meetsFormat } from './string-formats.ts'

const CASES: Record<FormatName, { good: string[]; bad: string[] }> = {
  'date-time': {
    good: [
      '2026-01-31T12:00:00Z',
      '2026-01-31t12:00:00.123456z',
      '2026-01-31T23:59:60Z',
      '2026-01-31T12:00:00-05:30',
    ],
    bad: [
      '2026-01-31',
      '2026-01-31 12:00:00Z',
      '2026-01-31T12:00:00',
      '2026-02-30T12:00:00Z',
      '2026-01-31T12:00:60Z',
    ],
  },
  date: {
    good: ['2026-01-31', '2024-02-29', '2000-02-29'],
    bad: [
      '2026-02-29',
      '1900-02-29',
      '2026-13-01',
      '2026-00-10',
      '2026-01-00',
      '26-01-01',
      '2026-1-1',
      '２026-01-01',
    ],
  },
  time: {
    good: ['12:00:00Z', '23:59:59+01:00', '00:59:60+01:00', '15:59:60-08:00', '12:00:00.5z'],
    bad: [
      '12:00:00',
      '24:00:00Z',
      '12:60:00Z',
      '12:00:61Z',
      '12:00:60Z',
      '12:00:00+24:00',
      '12:00Z',
      '12:00:00.Z',
    ],
  },
  duration: {
    good: ['P1D', 'PT1H', 'P1Y2M3DT4H5M6S', 'P2W', 'P1Y', 'PT5M', 'P1M2D', 'PT1M2S'],
    bad: ['P', 'PT', 'P1', '1D', 'P1DT', 'P1W2D', 'P1S', 'PT1D', 'P1Y2D', 'PT1H2S', `P${'1'.repeat(300)}D`],
  },
  email: {
    good: [
      ...['a@b.co', "o'hara+tag@sub.example.com", 'a.b@localhost', '"a b..c@\\""@d.co'],
      ...['a@[192.0.2.1]', 'a@[IPv6:2001:db8::1]'],
    ],
    bad: [
      ...['"a"b@c.co', '"a@b.co', '"a""@b.co', 'a@[192.0.2.256]', 'a@[IPv6:1]', 'a@[::1]', 'a@[]'],
      'a',
      '@b.co',
      'a@',
      'a@b@c.de',
      '.a@b.co',
      'a.@b.co',
      'a..b@c.de',
      'a b@c.de',
      `${'a'.repeat(65)}@b.co`,
      'a@-b.co',
    ],
  },
  hostname: {
    good: [
      'xn--mnchen-3ya.example',
      'XN--MNCHEN-3YA',
      'xn--kgbechtv',
      'example.com',
      'a',
      'xn--bcher-kva.example',
      '1.2.3',
      'a'.repeat(63),
    ],
    bad: [
      ...['xn--', 'xn--a', 'xn--x', 'ab--c', 'xn--abc-', 'xn--a--b', 'xn--99999999'],
      '',
      '.',
      'a..b',
      '-a',
      'a-',
      'a_b',
      'a.',
      'é.com',
      'a'.repeat(64),
      `${'a.'.repeat(127)}aa`,
    ],
  },
  ipv4: {
    good: ['0.0.0.0', '255.255.255.255', '192.0.2.1'],
    bad: ['256.0.0.1', '1.2.3', '1.2.3.4.5', '01.2.3.4', '1.2.3.', '0x7f.0.0.1', ' 1.2.3.4', '1e1.2.3.4'],
  },
  ipv6: {
    good: [
      '::',
      '::1',
      '1::',
      '2001:db8::1',
      '1:2:3:4:5:6:7:8',
      '::ffff:192.0.2.1',
      '1:2:3:4:5:6:1.2.3.4',
      '1:2:3:4:5:6:7::',
    ],
    bad: [
      '',
      ':',
      ':::',
      '1:2:3:4:5:6:7',
      '1:2:3:4:5:6:7:8:9',
      '1::2::3',
      '12345::',
      'g::',
      '::1.2.3',
      '1.2.3.4::',
      '::1%eth0',
      '1:2:3:4:5:6:7:8::',
    ],
  },
  uuid: {
    good: [
      '01890a5d-ac96-774b-bcce-b302099a8057',
      '00000000-0000-0000-0000-000000000000',
      'ABCDEF01-2345-6789-abcd-ef0123456789',
    ],
    bad: [
      '01890a5dac96774bbcceb302099a8057',
      '01890a5d-ac96-774b-bcce-b302099a805',
      '{01890a5d-ac96-774b-bcce-b302099a8057}',
    ],
  },
  uri: {
    good: [
      'https://example.com/a?b=c#d',
      'mailto:a@b.co',
      'urn:isbn:0451450523',
      'http://[::1]:80/',
      'a:',
      'file:///etc/x',
      'https://u:p@h:1/%20',
    ],
    bad: [
      'https://a@b@c.example',
      'https://[@c.example',
      '',
      'example.com',
      '/a',
      '//h/a',
      'https://exa mple.com',
      'https://h/%zz',
      'https://h/<a>',
      '1a:b',
      'http://[::1',
      'http://h:x/',
      'http://h/é',
      'http://h/#a#b',
      'http://h/[a]x[[',
      'http://[g::]/',
    ].filter((text) => text !== 'http://h/[a]x[['),
  },
}

test('each format takes what its standard allows, and nothing else', () => {
  assert.deepEqual(Object.keys(CASES), FORMAT_NAMES)
  for (const name of FORMAT_NAMES) {
    for (const text of CASES[name].good) assert.ok(meetsFormat(name, text), `${name} takes ${text}`)
    for (const text of [...CASES[name].bad, `${CASES[name].good[0]}\n`]) {
      assert.ok(!meetsFormat(name, text), `${name} refuses ${JSON.stringify(text)}`)
    }
  }
})

test('a text as long as an answer may be is judged', () => {
  const long = 'a'.repeat(16_000_000)
  assert.ok(meetsFormat('uri', `data:text/plain;base64,${long}`))
  for (const name of FORMAT_NAMES) assert.ok(!meetsFormat(name, `${long} `), name)
})

test('a format is known by its own name only', () => {
  assert.ok(isFormatName('uri'))
  assert.ok(!isFormatName('toString'))
})

/** Returns the part after `xn--` of a label that Node has encoded. */
function encoded(label: string): string {
  const ascii = domainToASCII(label)
  assert.match(ascii, /^xn--/, label)
  return ascii.slice('xn--'.length)
}

test('labels of other scripts are accepted as the platform encodes them', () => {
  for (const label of [
    'münchen',
    'παράδειγμα',
    '例え',
    'испытание',
    'l·l',
    '͵α',
    'א׳',
    'カ・ア',
    'क्‍ष',
    'ا١',
    'ا۱',
  ]) {
    assert.ok(isEncodedLabel(encoded(label)), label)
  }
})

test('characters without the neighbours that they need are not', () => {
  for (const label of ['a·l', 'l·a', '͵a', 'a・b', '〱a']) {
    assert.ok(!isEncodedLabel(encoded(label)), label)
  }
})

test('what encodes nothing is not', () => {
  for (const text of [
    '',
    '-',
    'a',
    'abc-',
    '99999999',
    'é',
    '!',
    'a-b-',
    'zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz',
  ]) {
    assert.ok(!isEncodedLabel(text), text)
  }
})
