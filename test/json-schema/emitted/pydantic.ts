/**
 * Lists schemas as pydantic 2 emits them, with valid and invalid answers. They are written by hand, because pydantic is a
 * Python library.
 */

type Sample = readonly [schema: object, right: readonly unknown[], wrong: readonly unknown[]]

const ADDRESS = {
  properties: { street: { title: 'Street', type: 'string' } },
  required: ['street'],
  title: 'Address',
  type: 'object',
}
const PETS = {
  Cat: {
    properties: {
      kind: { const: 'cat', title: 'Kind', type: 'string' },
      lives: { title: 'Lives', type: 'integer' },
    },
    required: ['kind', 'lives'],
    title: 'Cat',
    type: 'object',
  },
  Dog: {
    properties: { kind: { const: 'dog', default: 'dog', title: 'Kind', type: 'string' } },
    title: 'Dog',
    type: 'object',
  },
}
const COLOR = { enum: ['red', 'blue'], title: 'Color', type: 'string' }

function model(field: object, $defs?: object): object {
  return {
    ...($defs && { $defs }),
    properties: { a: field },
    required: ['a'],
    title: 'Model',
    type: 'object',
  }
}

function field(schema: object, right: readonly unknown[], wrong: readonly unknown[], $defs?: object): Sample {
  const answers = (values: readonly unknown[]) => values.map((a) => ({ a }))
  return [model(schema, $defs), answers(right), [...answers(wrong), {}]]
}

export const PYDANTIC: readonly Sample[] = [
  field({ title: 'A' }, [1, null], []),
  field({ title: 'A', type: 'string' }, [''], [1]),
  field({ anyOf: [{ type: 'integer' }, { type: 'null' }], default: null, title: 'A' }, [1, null], ['x']),
  field({ exclusiveMinimum: 0, maximum: 9, multipleOf: 3, title: 'A', type: 'integer' }, [9], [0, 10, 1.5]),
  field(
    { maxLength: 3, minLength: 1, pattern: '^a+$', title: 'A', type: 'string' },
    ['aa'],
    ['', 'b', 'aaaa'],
  ),
  field({ const: 'x', title: 'A', type: 'string' }, ['x'], ['y']),
  field({ enum: ['x', 1, null], title: 'A' }, ['x', 1, null], ['y']),
  field({ $ref: '#/$defs/Color' }, ['red'], ['green'], { Color: COLOR }),
  field({ $ref: '#/$defs/Color', default: 'red', description: 'A color' }, ['red'], ['green'], {
    Color: COLOR,
  }),
  field({ $ref: '#/$defs/Address', description: 'Home', title: 'A' }, [{ street: '' }], [{}], {
    Address: ADDRESS,
  }),
  field({ allOf: [{ $ref: '#/$defs/Address' }], description: 'Home' }, [{ street: '' }], [{}], {
    Address: ADDRESS,
  }),
  field(
    {
      discriminator: { mapping: { cat: '#/$defs/Cat', dog: '#/$defs/Dog' }, propertyName: 'kind' },
      oneOf: [{ $ref: '#/$defs/Cat' }, { $ref: '#/$defs/Dog' }],
      title: 'A',
    },
    [{ kind: 'cat', lives: 9 }, { kind: 'dog' }],
    [{ kind: 'cat' }, { kind: 'cow' }],
    PETS,
  ),
  field(
    { items: { type: 'integer' }, maxItems: 2, minItems: 1, title: 'A', type: 'array' },
    [[1]],
    [[], [1, 2, 3]],
  ),
  field({ items: { type: 'integer' }, title: 'A', type: 'array', uniqueItems: true }, [[1, 2]], [[1, 1]]),
  field(
    {
      maxItems: 2,
      minItems: 2,
      prefixItems: [{ type: 'integer' }, { type: 'string' }],
      title: 'A',
      type: 'array',
    },
    [[1, '']],
    [[1], [1, '', 2], ['', 1]],
  ),
  field({ items: { type: 'integer' }, maxItems: 1, minItems: 1, type: 'array' }, [[1]], [[], [1, 2]]),
  field({ maxItems: 0, minItems: 0, type: 'array' }, [[]], [[1]]),
  field({ additionalProperties: { type: 'integer' }, title: 'A', type: 'object' }, [{ x: 1 }], [{ x: '' }]),
  field({ additionalProperties: true, title: 'A', type: 'object' }, [{ x: 1 }], [1]),
  field({ patternProperties: { '^x': { type: 'integer' } }, type: 'object' }, [{ x: 1 }], [{ x: '' }]),
  field(
    { additionalProperties: { type: 'integer' }, propertyNames: { $ref: '#/$defs/Color' }, type: 'object' },
    [{ red: 1 }],
    [{ green: 1 }],
    { Color: COLOR },
  ),
  field({ format: 'date-time', title: 'A', type: 'string' }, ['2026-01-31T12:00:00Z'], ['now']),
  field({ format: 'date', title: 'A', type: 'string' }, ['2026-01-31'], ['x']),
  field({ format: 'duration', title: 'A', type: 'string' }, ['P1D'], ['1 day']),
  field({ format: 'uuid4', title: 'A', type: 'string' }, ['any'], [1]),
  field({ format: 'email', title: 'A', type: 'string' }, ['a@b.co'], ['a']),
  field({ format: 'uri', maxLength: 2083, minLength: 1, type: 'string' }, ['https://a.co/'], ['a']),
  field({ format: 'binary', title: 'A', type: 'string' }, ['x'], [1]),
  field({ format: 'password', title: 'A', type: 'string', writeOnly: true }, ['x'], [1]),
  field({ deprecated: true, examples: ['x'], readOnly: true, title: 'A', type: 'string' }, ['x'], [1]),
  field(
    { contentMediaType: 'application/json', contentSchema: { type: 'integer' }, title: 'A', type: 'string' },
    ['1'],
    [1],
  ),
  [{ additionalProperties: false, properties: {}, title: 'Model', type: 'object' }, [{}], [{ a: 1 }]],
  [
    { items: { $ref: '#/$defs/Address' }, title: 'Model', type: 'array', $defs: { Address: ADDRESS } },
    [[]],
    [[{}]],
  ],
  [
    {
      $defs: {
        Node: {
          properties: { next: { anyOf: [{ $ref: '#/$defs/Node' }, { type: 'null' }], default: null } },
          title: 'Node',
          type: 'object',
        },
      },
      $ref: '#/$defs/Node',
    },
    [{}, { next: { next: null } }],
    [{ next: { next: 1 } }],
  ],
  [
    { $ref: '#/components/schemas/Address', components: { schemas: { Address: ADDRESS } } },
    [{ street: '' }],
    [{}],
  ],
]
