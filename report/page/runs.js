// SPDX-License-Identifier: MIT
// How runs are told apart: by colour, dash pattern and marker, each of which is enough.

const hidden = new Set();
let charts = [];
const isRunShown = index => !hidden.has(index);

const colorOf = index => cssColor(DATA.groups[index].style.color);
const dashOf = index => DATA.groups[index].style.dash.split(' ').filter(part => part).map(Number);
const markerOf = index => DATA.groups[index].style.marker;

const visible = () => DATA.groups.map((group, index) => ({group, index})).filter(entry => isRunShown(entry.index));

const SHAPES = {
  circle: 'M-4 0A4 4 0 1 0 4 0A4 4 0 1 0-4 0Z', rect: 'M-3.6-3.6H3.6V3.6H-3.6Z', triangle: 'M0-4.4L4.4 3.6H-4.4Z',
  rectRot: 'M0-4.8L4.8 0L0 4.8L-4.8 0Z', crossRot: 'M-4-4L4 4M4-4L-4 4', cross: 'M0-4.8V4.8M-4.8 0H4.8',
};

// A piece of the run's line with its marker.
function swatch(index, parent) {
  const svg = (tag, attributes, into) => {
    const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
    Object.entries(attributes).forEach(([key, value]) => node.setAttribute(key, value));
    into.appendChild(node);
    return node;
  };
  const color = colorOf(index);
  const box = svg('svg', {class: 'swatch', viewBox: '0 0 34 12', 'aria-hidden': 'true'}, parent);
  svg('path', {d: 'M0 6H34', stroke: color, 'stroke-width': 2, 'stroke-dasharray': DATA.groups[index].style.dash}, box);
  svg('path', {d: SHAPES[markerOf(index)], transform: 'translate(17 6)', fill: color, stroke: color, 'stroke-width': 1.6}, box);
}
