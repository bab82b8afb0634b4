// SPDX-License-Identifier: MIT
// What a chart shows, in words for screen readers and as a table for everybody.

// A card with a heading and a canvas. `look`: a further class of the canvas's holder.
function card(parent, title, look) {
  const box = element('div', undefined, parent);
  box.className = 'card';
  element('h3', title, box);
  const holder = element('div', undefined, box);
  holder.className = look ? `canvas ${look}` : 'canvas';
  const canvas = element('canvas', undefined, holder);
  canvas.setAttribute('role', 'img');
  canvas.setAttribute('aria-label', title);
  return canvas;
}

// `rows`: the first is the header, the first cell of a row its name. The words are the rows', cell by cell.
function describe(canvas, rows) {
  const [header, ...body] = rows;
  const words = body.map(row => `${row[0]}: ` + row.slice(1).map((cell, i) => `${header[i + 1]} ${cell}`).join(', '));
  canvas.setAttribute('aria-label', `${canvas.getAttribute('aria-label')}. ${words.join('. ')}`);
  const details = element('details', undefined, canvas.closest('.card'));
  element('summary', 'Data as a table', details);
  const scroll = element('div', undefined, details);
  scroll.className = 'scroll';
  const table = element('table', undefined, scroll);
  rows.forEach((row, i) => {
    const line = element('tr', undefined, table);
    row.forEach(cell => element(i === 0 ? 'th' : 'td', cell, line));
  });
}

// Where each line begins and ends, and its extremes.
function describeLines(canvas, datasets, xText, yText) {
  const rows = datasets.filter(set => !set.isBand && !set.isMark && set.data.length).map(set => {
    const byValue = [...set.data].sort((a, b) => a.y - b.y);
    const text = point => `${yText(point.y)} at ${xText(point.x)}`;
    return [set.label, ...[set.data[0], byValue[0], byValue[byValue.length - 1], set.data[set.data.length - 1]].map(text)];
  });
  const marks = datasets.filter(set => set.isMark && set.data.length)
    .map(set => [set.label, ...Array(3).fill('–'), `${yText(set.data[set.data.length - 1].y)} at ${xText(set.data[0].x)}`]);
  describe(canvas, [['Line', 'first', 'lowest', 'highest', 'last'], ...rows, ...marks]);
}
