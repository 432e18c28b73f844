// The tables of a panel as CSV and NDJSON, as they are shown.

/** A cell as a spreadsheet takes it: in quotes where needed, and never as a formula. */
export function csvCell(text: string): string {
  const formula = /^[=+@-]/.test(text) && !/^-?[\d.,]+$/.test(text);
  const plain = text.replace(/[\u0000-\u001f]+/g, ' ');
  if (!formula && !/[",']/.test(plain)) return plain;
  return `"${formula ? "'" : ''}${plain.replaceAll('"', '""')}"`;
}

/** Rows under names, one line each. */
export function written(names: string[], rows: string[][], format: 'csv' | 'ndjson'): string {
  if (format === 'csv') return [names, ...rows].map((row) => `${row.map(csvCell).join(',')}\r\n`).join('');
  return rows.map((row) => `${JSON.stringify(Object.fromEntries(names.map((name, at) => [name, row[at] ?? ''])))}\n`).join('');
}

const textOf = (element: Element): string =>
  (element.textContent ?? '')
    .replace(/[▾▸↑↓]/g, '')
    .replace(/\s+/g, ' ')
    .trim();

/** Whether a cell has a value, and not what its row leads to. */
const isValue = (cell: Element): boolean => !cell.matches('.leads');

/** Every table in an element; rows of details are left out. */
export function exported(panel: Element, format: 'csv' | 'ndjson'): string {
  return [...panel.querySelectorAll('table')]
    .map((table) => {
      const names = [...table.querySelectorAll('thead th')].filter(isValue).map(textOf);
      const rows = [...table.querySelectorAll('tbody tr:not(.detail)')].map((row) => [...row.children].filter(isValue).map(textOf));
      return written(names, rows, format);
    })
    .join(format === 'csv' ? '\r\n' : '');
}

/** Saves a text as a file. */
export function save(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: name.endsWith('.csv') ? 'text/csv' : 'application/x-ndjson' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}
