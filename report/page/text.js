// SPDX-License-Identifier: MIT
// Elements, and numbers for readers.

const byId = id => document.getElementById(id);
const cssColor = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function element(tag, text, parent) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (parent) parent.appendChild(node);
  return node;
}

// --- numbers for readers

const trim = (value, digits) => String(Number(value.toPrecision(digits)));

function scaled(value, units, base, digits) {
  let index = 0;
  while (Math.abs(value) >= base && index + 1 < units.length) { value /= base; ++index; }
  return `${trim(value, digits)} ${units[index]}`.trim();
}

const bytesText = value => scaled(value, ['B', 'kB', 'MB', 'GB', 'TB', 'PB'], 1000, 3);
const countText = value => scaled(value, ['', 'k', 'M', 'G'], 1000, 4).replace(' ', '');
const plainText = value => trim(value, 4);

function secondsText(seconds) {
  if (seconds === 0) return '0';
  if (seconds < 1e-3) return `${trim(seconds * 1e6, 3)} µs`;
  if (seconds < 1) return `${trim(seconds * 1e3, 3)} ms`;
  if (seconds < 120) return `${trim(seconds, 3)} s`;
  return seconds < 7200 ? `${trim(seconds / 60, 3)} min` : `${trim(seconds / 3600, 3)} h`;
}

const percentText = (value, digits = 2) => `${(100 * value).toFixed(digits)} %`;
const metricText = value => DATA.metric.share ? percentText(value) : plainText(value);

// The unit of a time axis depends on its length, so that ticks are short.
function timeUnit(longest) {
  if (longest < 180) return {name: 's', seconds: 1};
  return longest < 3 * 3600 ? {name: 'min', seconds: 60} : {name: 'h', seconds: 3600};
}

const bandwidthText = gbps => scaled(gbps * 1e9, ['bit/s', 'kbit/s', 'Mbit/s', 'Gbit/s', 'Tbit/s'], 1000, 3);

// "1.2× faster", or the second word for a factor below 1; nothing where one of the two is not known.
function factorText(dividend, divisor, words) {
  if (!dividend || !divisor || !(divisor.mean > 0) || !(dividend.mean > 0)) return '';
  const factor = dividend.mean / divisor.mean;
  return factor >= 1 ? `${trim(factor, 3)}× ${words[0]}` : `${trim(1 / factor, 3)}× ${words[1]}`;
}
