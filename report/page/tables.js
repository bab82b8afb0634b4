// SPDX-License-Identifier: MIT
// Legend, tables and texts.

function drawLegend() {
  const legend = byId('legend');
  legend.replaceChildren();
  DATA.groups.forEach((group, index) => {
    const chip = element('button', undefined, legend);
    chip.className = 'chip';
    chip.setAttribute('aria-pressed', String(!hidden.has(index)));
    swatch(index, chip);
    element('span', group.runs > 1 ? `${group.label} (${group.runs} seeds)` : group.label, chip);
    chip.onclick = () => {
      if (!hidden.delete(index)) hidden.add(index);
      redraw();
    };
  });
}

// Mean, and below it the range where several runs have the number, the interval if asked for, then what else there is to say.
function spreadCell(row, spread, text, extra, withInterval) {
  const cell = element('td', spread ? text(spread.mean) : '–', row);
  if (spread && spread.count > 1 && text(spread.low) !== text(spread.high)) {
    element('small', `${text(spread.low)} to ${text(spread.high)}`, cell);
  }
  if (withInterval && spread && spread.ci95 !== null) {
    element('small', `95 % CI ± ${DATA.metric.share ? `${(100 * spread.ci95).toFixed(2)} points` : plainText(spread.ci95)}`, cell);
  }
  if (extra) element('small', extra, cell);
}

function drawResults() {
  const table = byId('results');
  table.replaceChildren();
  const dense = DATA.dense === null ? null : DATA.groups[DATA.dense];
  const head = element('tr', undefined, table);
  const both = DATA.clock.has_ideal;
  ['Run', `Final ${DATA.metric.short}`, `Best ${DATA.metric.short}`, 'Last train loss', 'Density', 'Bits/entry',
    both ? `To target ${DATA.clock.described}` : 'Time to target', ...(both ? ['To target, ideal network'] : []),
    'Sent to target', 'Sent per step', 'Sent in all', 'Samples/s', 'Time', 'Steps', 'Clock'].forEach(title => element('th', title, head));
  DATA.groups.forEach((group, index) => {
    const row = element('tr', undefined, table);
    const name = element('td', undefined, row);
    swatch(index, name);
    name.append(group.label);
    element('small', [group.runs > 1 ? `${group.runs} seeds` : '', group.workers].filter(text => text).join(', '), name);
    const numbers = group.table;
    const versus = dense && group !== dense ? dense.table : {};
    spreadCell(row, numbers.final, metricText, differenceText(group, dense), true);
    spreadCell(row, numbers.best, metricText);
    spreadCell(row, numbers.loss, plainText);
    spreadCell(row, numbers.density, value => `${trim(100 * value, 3)} %`);
    spreadCell(row, numbers.bits, value => trim(value, 3));
    spreadCell(row, numbers.target_time, secondsText, factorText(versus.target_time, numbers.target_time, ['sooner', 'later']));
    if (both) {
      spreadCell(row, numbers.target_ideal, secondsText, factorText(versus.target_ideal, numbers.target_ideal, ['sooner', 'later']));
    }
    spreadCell(row, numbers.target_bytes, bytesText, factorText(versus.target_bytes, numbers.target_bytes, ['less', 'more']));
    spreadCell(row, numbers.bytes_per_step, bytesText, factorText(versus.bytes_per_step, numbers.bytes_per_step, ['less', 'more']));
    spreadCell(row, numbers.bytes, bytesText);
    spreadCell(row, numbers.throughput, countText, factorText(numbers.throughput, versus.throughput, ['faster', 'slower']));
    spreadCell(row, numbers.seconds, secondsText);
    spreadCell(row, numbers.steps, value => String(Math.round(value)));
    element('td', group.clock[0], row);
    group.clock.slice(1).forEach(text => element('small', text, row.lastChild));
  });
}

function differenceText(group, dense) {
  if (!dense || group === dense || !group.table.final || !dense.table.final) return '';
  const difference = group.table.final.mean - dense.table.final.mean;
  const size = DATA.metric.share ? `${(100 * Math.abs(difference)).toFixed(2)} points` : plainText(Math.abs(difference));
  return `${size} ${difference >= 0 ? 'above' : 'below'} dense`;
}

function drawDifferences() {
  const table = byId('differences');
  byId('differences-section').hidden = DATA.differences.length === 0;
  table.className = 'left';
  table.replaceChildren();
  const head = element('tr', undefined, table);
  element('th', 'Key', head);
  DATA.groups.forEach(group => element('th', group.label, head));
  for (const difference of DATA.differences) {
    const row = element('tr', undefined, table);
    element('td', difference.key, row);
    difference.values.forEach(value => element('td', value === '' ? '–' : value, row));
  }
}

function comparedText() {
  if (DATA.dense === null) return 'No dense run is given to compare with.';
  return `Sooner, later, faster, slower, less and more: than ${DATA.groups[DATA.dense].label}. ` +
    `Where there are several seeds: mean, range and, from 3 on, the 95 % confidence interval of the mean (Student's t).`;
}

function drawTexts() {
  byId('subtitle').textContent = DATA.subtitle;
  byId('clock').textContent = DATA.clock.text;
  byId('metric-title').textContent = DATA.metric.label;
  byId('target').textContent = DATA.target === null
    ? `No target: ${DATA.target_reason}.`
    : `Target: ${DATA.metric.short} of ${metricText(DATA.target)} (${DATA.target_reason}); reached at the first ` +
      `evaluation at it or better. ${comparedText()}`;
  const warnings = byId('warnings');
  DATA.warnings.forEach(text => { element('p', text, warnings).className = 'warning'; });
  const overlapped = DATA.groups.filter(group => group.seconds.exchange_hidden > 0)
    .map(group => `${group.label} ${secondsText(group.seconds.exchange_hidden)}, after it ` +
      secondsText(group.seconds.exchange_exposed || 0));
  byId('hidden-note').textContent = overlapped.length
    ? `Compensate to settle behind backward: ${overlapped.join('; ')}.` : '';
}
