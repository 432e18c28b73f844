// The types of the pages are those of the program's OpenAPI document.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { FILE, typescript } from '../scripts/types.mjs';

test('the types are generated from the document of the program', { skip: !process.env.WEIR_URL }, async () => {
  const document = await (await fetch(new URL('/api/openapi.json', process.env.WEIR_URL))).json();
  const fresh = await typescript(document);
  assert.ok(fresh.length > 10_000);
  assert.equal(readFileSync(FILE, 'utf8'), fresh, 'types.ts is stale: node scripts/types.mjs URL writes it');
});

test('each form of a schema has its type', async () => {
  const schemas = {
    Kind: { type: 'string', enum: ['a', 'b'] },
    Part: { type: 'object', description: 'A */ part.', required: ['n'], properties: { n: { type: 'integer' } } },
    Whole: {
      allOf: [
        { $ref: '#/components/schemas/Part' },
        {
          type: 'object',
          required: ['pair', 'rows', 'name'],
          properties: {
            pair: { type: 'array', items: { type: 'number' }, minItems: 2, maxItems: 2 },
            rows: { type: 'array', items: { type: 'array', items: {} } },
            name: { type: ['string', 'null'] },
            kind: { oneOf: [{ $ref: '#/components/schemas/Kind', description: 'Its kind.' }, { type: 'null' }] },
            values: { type: 'object', additionalProperties: { type: 'number' } },
          },
        },
      ],
    },
  };
  const text = await typescript({ components: { schemas } });
  for (const line of [
    "export type Kind = 'a' | 'b';",
    '/** A * / part. */\nexport interface Part {\n  n: number;\n}',
    '  pair: [number, number];',
    '  rows: unknown[][];',
    '  name: string | null;',
    '  /** Its kind. */\n  kind?: Kind | null;',
    '  values?: Record<string, number>;',
  ]) {
    assert.ok(text.includes(line), `${line} is not in\n${text}`);
  }
});
